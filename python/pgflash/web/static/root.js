// SPDX-License-Identifier: PostgreSQL
// The beginning of the paths of this page's server: "" if it is the only one.

export const root = document.body.dataset.root ?? "";
