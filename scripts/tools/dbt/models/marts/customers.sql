{{ config(materialized='table', indexes=[{'columns': ['customer']}]) }}
select orders.customer, count(*) as orders, sum(amount) as amount, max(ordered_at) as last_at,
       bool_and(is_final) as is_settled
from {{ ref('orders') }} as orders
join {{ ref('states') }} as states on states.state = orders.state
group by orders.customer
