{{ config(materialized='incremental', incremental_strategy='append') }}
select ordered_at::date as day, count(*) as orders, sum(amount) as amount
from {{ ref('orders') }}
{% if is_incremental() %}
where ordered_at::date > (select max(day) from {{ this }})
{% endif %}
group by ordered_at::date
