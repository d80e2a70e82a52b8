-- This one fails, so that a test that reads nothing is noticed.
select buyer, revenue from {{ source('trilayer', 'by_minute') }} where revenue >= 1000
