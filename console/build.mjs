// Bundles the console into ../trilayer_server/console, which is what the server serves.
// The same sources and the same package-lock.json give the same bytes on every machine.

import { createHash } from "node:crypto";
import { cp, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const target = join(here, "..", "trilayer_server", "console");

const built = await esbuild.build({
  absWorkingDir: here,
  entryPoints: { console: "src/main.js" },
  outdir: target,
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: true,
  legalComments: "none", // the licences are in LICENSES.txt
  charset: "utf8",
  metafile: true,
  write: false,
});
const texts = await licences(packagesOf(built.metafile)); // before anything is replaced
await rm(target, { recursive: true, force: true });
await mkdir(target, { recursive: true });
for (const { path, contents } of built.outputFiles) await writeFile(path, contents);
await cp(join(here, "static"), target, { recursive: true });
await writeFile(join(target, "LICENSES.txt"), texts);
await writeFile(join(target, "SHA256SUMS"), await checksums());

/** The folders of the packages that the bundle contains, in order. */
function packagesOf(metafile) {
  const found = new Set();
  for (const output of Object.values(metafile.outputs)) {
    for (const [path, { bytesInOutput }] of Object.entries(output.inputs)) {
      const name = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1];
      if (name && bytesInOutput > 0) found.add(name);
    }
  }
  return [...found].sort();
}

/** What the licences of the packages ask to be passed on. */
async function licences(names) {
  const parts = ["The web console of trilayer contains these packages, under these licences.\n"];
  for (const name of names) {
    const folder = join(here, "node_modules", name);
    const { version, license } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
    parts.push(`${"=".repeat(80)}\n${name} ${version}, ${license}\n${"=".repeat(80)}\n`);
    const texts = (await readdir(folder)).filter((file) => /^(licen|notice)/i.test(file)).sort();
    if (!texts.some((file) => /^licen/i.test(file))) throw new Error(`${name} must have a licence file; got none`);
    for (const file of texts) {
      parts.push((await readFile(join(folder, file), "utf8")).replaceAll("\r\n", "\n").trim() + "\n");
    }
  }
  return parts.join("\n");
}

/** One line for each file, as `sha256sum --check` reads them. */
async function checksums() {
  const lines = [];
  for (const file of (await readdir(target)).sort()) {
    const sum = createHash("sha256").update(await readFile(join(target, file))).digest("hex");
    lines.push(`${sum}  ${file}\n`);
  }
  return lines.join("");
}
