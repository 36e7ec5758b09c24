-- When publishing a sale began: from then on its terms stay what they are, whatever became of the publishing.

ALTER TABLE sales ADD COLUMN terms_fixed_at BIGINT;
