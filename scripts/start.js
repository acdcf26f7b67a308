// `npm start`: sets up, then runs an API server and a node on this machine, with an example applied: kubectl works at once.
// Everything is kept in .mountlet of this folder, and pods end with it, so that nothing is left behind. Arguments after `--` go to mountlet instead.
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { root, setUp } from './set-up.js';

setUp();
const given = process.argv.slice(2);
const up = ['up', '--state', '.mountlet', '--listen', '127.0.0.1:0', join('examples', 'hello.yaml'), '--drain'];
const program = join(root, 'bin', 'mountlet.js');
const child = spawn(process.execPath, [program, ...(given.length > 0 ? given : up)], { stdio: 'inherit', cwd: root });
// A terminal sends Ctrl-C to both processes; a SIGTERM that only this one gets is passed on.
process.on('SIGINT', () => {});
process.on('SIGTERM', () => child.kill('SIGTERM'));
child.on('exit', (code, signal) => {
  process.exitCode = code ?? (signal === 'SIGINT' ? 130 : 1);
});
