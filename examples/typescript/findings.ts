// Prints the findings of `kfmt check --json` from standard input, and what a broker would lose.
//
//   npm ci && npm run build
//   kfmt check DIR --json | node dist/findings.js
//
// The exit code is kfmt's. kfmt.d.ts is generated from kfmt's JSON Schema: npm run generate

import { createInterface } from "node:readline";
import type { KfmtLine, Partition } from "./kfmt.js";

function partition(row: Partition): string {
  return "segments" in row
    ? `${row.file}: ${row.segments} segments, ${row.errors} errors`
    : `${row.topic}-${row.partition}: leader ${row.leader}`; // of `kfmt state`
}

/** What to print for an object; nothing for types that this program does not know. */
function words(row: KfmtLine): string | undefined {
  switch (row.type) {
    case "finding": {
      const at = row.position === null ? "" : ` byte ${row.position}`;
      return `${row.severity} ${row.code} ${row.file}${at}: ${row.message}`;
    }
    case "partition":
      return partition(row);
    case "broker_start":
      return row.lost_offsets.length
        ? `after a ${row.after} ${row.file} loses ${row.lost_offsets.map(([a, b]) => `${a}–${b}`).join(", ")}`
        : undefined;
    default:
      return undefined;
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const row: KfmtLine = JSON.parse(line);
  const told = words(row);
  if (told !== undefined) console.log(told);
  if (row.type === "summary") process.exitCode = row.exit_code;
}
