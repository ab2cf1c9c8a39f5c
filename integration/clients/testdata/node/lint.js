// Checks an OpenAPI document with Redocly's rules: node lint.js FILE.
import { formatProblems, getTotals, lint, loadConfig } from "@redocly/openapi-core";

const problems = await lint({ ref: process.argv[2], config: await loadConfig({ configPath: "redocly.yaml" }) });
formatProblems(problems, { totals: getTotals(problems), format: "stylish", version: "" });
process.exitCode = problems.length > 0 ? 1 : 0;
