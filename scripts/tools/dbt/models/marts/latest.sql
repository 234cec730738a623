{{ config(materialized='incremental', unique_key='customer', incremental_strategy='delete+insert', on_schema_change='append_new_columns') }}
select customer, max(ordered_at) as last_at
from {{ ref('orders') }}
group by customer
