// `npm run generate`: makes src/grpc/messages/*.ts of src/grpc/protocols/*.proto. Only needed after a protocol changed, so the
// generator (over 100 MB) is no dependency.
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root, run } from './set-up.js';

const generator = ['@bufbuild/buf@1.74.0', '@bufbuild/protoc-gen-es@2.16.0'];
const messages = join(root, 'src', 'grpc', 'messages');
const plugin = { local: 'protoc-gen-es', out: messages, opt: ['target=ts', 'import_extension=ts'] };
const template = JSON.stringify({ version: 'v2', clean: true, plugins: [plugin] });
const packages = generator.flatMap((name) => ['--package', name]);
const protocols = join(root, 'src', 'grpc', 'protocols');
run('npx', ['--yes', ...packages, '--', 'buf', 'generate', protocols, '--template', template]);

// Enums are not erasable: each becomes an object and the type of its values.
for (const name of readdirSync(messages)) {
  const file = join(messages, name);
  const text = readFileSync(file, 'utf8').replaceAll(/export enum (\w+) \{([^}]*)\}/g, (_, type, body) => {
    const values = body.replaceAll(/^(\s*\w+) = (\d+),/gm, '$1: $2,');
    return `export const ${type} = {${values}} as const;\nexport type ${type} = (typeof ${type})[keyof typeof ${type}];`;
  });
  writeFileSync(file, text);
}
run(join(root, 'node_modules', '.bin', 'oxfmt'), [messages]);
