{{ config(materialized='ephemeral') }}
select * from {{ ref('days') }} order by day desc limit 2
