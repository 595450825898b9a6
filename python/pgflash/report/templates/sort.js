// SPDX-License-Identifier: PostgreSQL
// Sorts a table by the column whose head is pressed: down, up, and as it was.
"use strict";

/** Return a cell as what it is compared by; nothing stands last in either direction. */
function valueOf(cell, isWord) {
    const text = cell.textContent.trim();
    if (isWord) return text;
    const number = parseFloat(text.replace(/[,<>]/g, ""));
    return Number.isNaN(number) ? null : number;
}

function compare(one, other) {
    if (one === null || other === null) return (one === null) - (other === null);
    return typeof one === "number" ? one - other : one.localeCompare(other, "en", {numeric: true});
}

/** Sort the rows that name something; sums, rests and separate rows keep their places. */
function sort(table, place, isWord, direction) {
    const body = table.tBodies[0];
    const rows = table.inOrder ??= [...body.rows];
    const isFixed = row => /\b(total|residual|rest|apart)\b/.test(row.className);
    const moved = rows.filter(row => !isFixed(row));
    if (direction) {
        const values = new Map(moved.map(row => [row, valueOf(row.cells[place], isWord)]));
        const sign = direction === "ascending" ? 1 : -1;
        moved.sort((a, b) => {
            const [one, other] = [values.get(a), values.get(b)];
            return one === null || other === null ? compare(one, other) : sign * compare(one, other);
        });
    }
    body.append(...rows.map(row => isFixed(row) ? row : moved.shift()));
}

for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, place) => {
        if (head.classList.contains("fixed")) return;
        const isWord = head.classList.contains("word");
        const turns = isWord ? ["ascending", "descending", null] : ["descending", "ascending", null];
        const button = document.createElement("button");
        button.type = "button";
        button.append(...head.childNodes);
        head.append(button);
        button.addEventListener("click", () => {
            const next = turns[(turns.indexOf(head.getAttribute("aria-sort")) + 1) % turns.length];
            for (const one of heads) one.removeAttribute("aria-sort");
            if (next) head.setAttribute("aria-sort", next);
            sort(table, place, isWord, next);
        });
    });
}
