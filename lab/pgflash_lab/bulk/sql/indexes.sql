-- SPDX-License-Identifier: PostgreSQL

-- New rows go to its end.
ALTER TABLE load.lineitem
	ADD CONSTRAINT lineitem_pkey PRIMARY KEY (batch, l_orderkey, l_linenumber);

-- New rows go to leaves all over it.
CREATE INDEX lineitem_part ON load.lineitem (l_partkey);
