select 1
where (select sum(amount) from {{ ref('orders') }}) <> (select sum(amount) from {{ ref('customers') }})
