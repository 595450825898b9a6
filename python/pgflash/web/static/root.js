// SPDX-License-Identifier: PostgreSQL
// What the addresses of this page's server begin with: nothing if it is the only one.

export const root = document.body.dataset.root ?? "";
