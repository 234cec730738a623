{% snapshot customers_then %}
{{ config(target_schema='marts_then', unique_key='customer', strategy='check', check_cols=['orders']) }}
select customer, orders from {{ ref('customers') }}
{% endsnapshot %}
