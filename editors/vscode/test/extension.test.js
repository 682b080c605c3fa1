// The extension without a VS Code: what it registers, starts and runs, against a stand-in.
const assert = require("node:assert");
const { spawnSync } = require("node:child_process");
const Module = require("node:module");
const path = require("node:path");
const { test } = require("node:test");

const manifest = require("../package.json");

function standIn(settings = {}) {
  const seen = { commands: {}, tasks: [], providers: {}, started: [], stopped: 0, errors: [] };
  class Task {
    constructor(definition, scope, name, source, execution, matchers) {
      Object.assign(this, { definition, scope, name, source, execution, matchers });
    }
  }
  class ShellExecution {
    constructor(command, args) {
      Object.assign(this, { command, args });
    }
  }
  class LanguageClient {
    constructor(id, name, server, client) {
      Object.assign(this, { id, name, server, client });
    }
    async start() {
      if (settings.fails) {
        throw new Error("no such command");
      }
      seen.started.push(this);
    }
    async stop() {
      seen.stopped += 1;
    }
  }
  const vscode = {
    workspace: {
      isTrusted: settings.trusted !== false,
      onDidGrantWorkspaceTrust: (run) => (seen.granted = run),
      getConfiguration: () => ({ get: (key) => settings[key] }),
    },
    window: { showErrorMessage: (text) => seen.errors.push(text) },
    commands: { registerCommand: (name, run) => (seen.commands[name] = run) },
    tasks: {
      registerTaskProvider: (name, provider) => (seen.providers[name] = provider),
      executeTask: (task) => seen.tasks.push(task),
    },
    Task,
    ShellExecution,
    TaskScope: { Workspace: 2 },
    TaskGroup: { Test: "test", Build: "build" },
  };
  return { seen, modules: { vscode, "vscode-languageclient/node": { LanguageClient } } };
}

async function activated(settings) {
  const { seen, modules } = standIn(settings);
  const load = Module._load;
  Module._load = (name, ...rest) => modules[name] ?? load(name, ...rest);
  try {
    const file = require.resolve("../src/extension.js");
    delete require.cache[file];
    const extension = require(file);
    const context = { subscriptions: [] };
    await extension.activate(context);
    return { seen, extension, context };
  } finally {
    Module._load = load;
  }
}

test("every command of the manifest is there", async () => {
  const { seen } = await activated();
  const named = manifest.contributes.commands.map((each) => each.command);
  assert.deepEqual(Object.keys(seen.commands).sort(), named.sort());
});

test("the server is `tidelog lsp`, or what the setting says", async () => {
  const { seen } = await activated();
  assert.deepEqual(seen.started[0].server.run, { command: "tidelog", args: ["lsp"] });
  const other = await activated({ command: "/opt/tidelog" });
  assert.equal(other.seen.started[0].server.run.command, "/opt/tidelog");
});

test("a server that does not start is one sentence", async () => {
  const { seen } = await activated({ fails: true });
  assert.equal(seen.errors.length, 1);
  assert.match(seen.errors[0], /does not start/);
});

test("the tests run as a task whose problems are matched", async () => {
  const { seen } = await activated();
  seen.commands["tidelog.runTests"]();
  const [task] = seen.tasks;
  assert.deepEqual([task.execution.command, ...task.execution.args], ["tidelog", "test"]);
  const known = manifest.contributes.problemMatchers.map((each) => `$${each.name}`);
  assert.ok(task.matchers.every((name) => known.includes(name)));
});

test("restarting and leaving stop the server", async () => {
  const { seen, extension } = await activated();
  await seen.commands["tidelog.restart"]();
  assert.equal(seen.stopped, 1);
  assert.equal(seen.started.length, 2);
  await extension.deactivate();
  assert.equal(seen.stopped, 2);
});

test("the problem matchers match what the commands print", () => {
  const [finding, failed] = manifest.contributes.problemMatchers;
  const first = "error[E102]: `V` is compared but has no value";
  assert.deepEqual(first.match(finding.pattern[0].regexp).slice(1), [
    "error",
    "E102",
    "`V` is compared but has no value",
  ]);
  const note = "note[N401]: facts of one tick have no order";
  assert.deepEqual(note.match(finding.pattern[0].regexp).slice(1), [
    "note",
    "N401",
    "facts of one tick have no order",
  ]);
  assert.equal("note: here both are carried on".match(finding.pattern[0].regexp), null);
  assert.deepEqual(" --> rules/a.tdl:12:36".match(finding.pattern[1].regexp).slice(1), [
    "rules/a.tdl",
    "12",
    "36",
  ]);
  const line = "FAIL rules/a.test.yaml:4: three highs: in a row";
  assert.deepEqual(line.match(failed.pattern[0].regexp).slice(1), [
    "rules/a.test.yaml",
    "4",
    "three highs: in a row",
  ]);
});

test("the real command prints what is matched", (t) => {
  const run = spawnSync("tidelog", ["check", "-"], { input: "P(X) :- E(X), V > 5.\n" });
  if (run.error) {
    t.skip("tidelog is not on the path");
    return;
  }
  const lines = run.stdout.toString().split("\n");
  const [finding] = manifest.contributes.problemMatchers;
  const at = lines.findIndex((line) => line.match(finding.pattern[0].regexp));
  assert.ok(at >= 0 && lines[at + 1].match(finding.pattern[1].regexp));
});

test("files of the manifest exist", () => {
  const { languages, grammars, snippets, yamlValidation } = manifest.contributes;
  const named = [
    manifest.main,
    languages[0].configuration,
    grammars[0].path,
    ...snippets.map((each) => each.path),
    yamlValidation[0].url,
  ];
  for (const file of named) {
    require("node:fs").accessSync(path.join(__dirname, "..", file));
  }
});
