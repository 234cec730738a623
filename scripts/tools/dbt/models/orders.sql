{{ config(materialized='view') }}
select id, customer, ordered_at::timestamp as ordered_at, amount::numeric(12, 2) as amount, state
from {{ ref('raw_orders') }}
where customer is not null
