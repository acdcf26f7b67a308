// `npm start`: sets up, then runs an API server and a node on this machine, with an example applied: kubectl works at once.
// Everything is kept in .mountlet of this folder. Arguments after `--` go to mountlet instead.
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { root, setUp } from './set-up.js';

setUp();
const given = process.argv.slice(2);
const up = ['up', '--state', '.mountlet', '--listen', '127.0.0.1:0', '--apply', join('examples', 'hello.yaml')];
const program = join(root, 'bin', 'mountlet.js');
const child = spawn(process.execPath, [program, ...(given.length > 0 ? given : up)], { stdio: 'inherit', cwd: root });
// A terminal tells both of Ctrl-C; whoever tells only us means the program.
process.on('SIGINT', () => {});
process.on('SIGTERM', () => child.kill('SIGTERM'));
child.on('exit', (code, signal) => {
  process.exitCode = code ?? (signal === 'SIGINT' ? 130 : 1);
});
