select * from {{ source('trilayer', 'by_minute') }} where revenue <= 0
