// Tokenises texts as VS Code does, with its own two libraries.
//
//     node tokens.cjs MODULES GRAMMAR    texts on stdin as one JSON list; prints a list of texts, each a list of lines,
//                                        each a list of [text, innermost scope]
"use strict";
const fs = require("fs");
const path = require("path");

async function main([modules, file]) {
  const at = (name) => require(path.join(modules, name));
  const { Registry, INITIAL, parseRawGrammar } = at("vscode-textmate");
  const oniguruma = at("vscode-oniguruma");
  const wasm = fs.readFileSync(path.join(modules, "vscode-oniguruma", "release", "onig.wasm"));
  await oniguruma.loadWASM(wasm.buffer.slice(wasm.byteOffset, wasm.byteOffset + wasm.byteLength));
  const registry = new Registry({
    onigLib: Promise.resolve({
      createOnigScanner: (patterns) => new oniguruma.OnigScanner(patterns),
      createOnigString: (text) => new oniguruma.OnigString(text),
    }),
    loadGrammar: async () => parseRawGrammar(fs.readFileSync(file, "utf8"), file),
  });
  const grammar = await registry.loadGrammar("source.aex");
  const answer = JSON.parse(fs.readFileSync(0, "utf8")).map((text) => {
    let state = INITIAL;
    return text.split("\n").map((line) => {
      const result = grammar.tokenizeLine(line, state);
      state = result.ruleStack;
      return result.tokens.map((token) => [
        line.slice(token.startIndex, token.endIndex),
        token.scopes.at(-1).replace(/\.aex$/, ""),
      ]);
    });
  });
  process.stdout.write(JSON.stringify(answer));
}

main(process.argv.slice(2));
