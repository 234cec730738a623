{{ config(materialized='view') }}
select sum(amount) as amount from {{ ref('recent') }}
