-- SPDX-License-Identifier: PostgreSQL

ALTER TABLE load.sale ADD CONSTRAINT sale_pkey PRIMARY KEY (id);

-- New rows go to leaves all over it.
CREATE INDEX sale_account ON load.sale (account);
