// The VS Code side: starts `tidelog lsp`, and runs the tests as a task.
const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

function command() {
  return vscode.workspace.getConfiguration("tidelog").get("command") || "tidelog";
}

function makeClient() {
  const run = { command: command(), args: ["lsp"] };
  return new LanguageClient(
    "tidelog",
    "Tidelog",
    { run, debug: run },
    { documentSelector: [{ language: "tidelog" }] },
  );
}

async function start() {
  if (!vscode.workspace.isTrusted) {
    return; // the server is a command that the workspace may name
  }
  client = makeClient();
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    vscode.window.showErrorMessage(
      `Tidelog: \`${command()} lsp\` does not start. ` +
        "Install it with pip install 'tidelog[lsp]', or name it in tidelog.command.",
    );
  }
}

async function stop() {
  const running = client;
  client = undefined;
  if (running !== undefined) {
    await running.stop();
  }
}

function task(name, folder) {
  const rules = name === "check" ? "**/*.tdl" : "";
  const shell = new vscode.ShellExecution(command(), [name, rules].filter(Boolean));
  const found = new vscode.Task(
    { type: "tidelog", task: name },
    folder || vscode.TaskScope.Workspace,
    name,
    "tidelog",
    shell,
    name === "check" ? ["$tidelog"] : ["$tidelog", "$tidelog-test"],
  );
  found.group = name === "test" ? vscode.TaskGroup.Test : vscode.TaskGroup.Build;
  return found;
}

async function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("tidelog.runTests", () =>
      vscode.tasks.executeTask(task("test")),
    ),
    vscode.workspace.onDidGrantWorkspaceTrust(start),
    vscode.commands.registerCommand("tidelog.restart", async () => {
      await stop();
      await start();
    }),
    vscode.tasks.registerTaskProvider("tidelog", {
      provideTasks: () => (vscode.workspace.isTrusted ? [task("test")] : []),
      resolveTask: (given) => task(given.definition.task),
    }),
    { dispose: stop },
  );
  await start();
}

module.exports = { activate, deactivate: stop };
