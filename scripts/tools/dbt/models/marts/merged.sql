{{ config(materialized='incremental', unique_key='customer', incremental_strategy='merge') }}
select customer, count(*) as orders from {{ ref('orders') }} group by customer
