// `npm start`: sets up, then renders the examples and prints the tree. Arguments after `--` go to mountlet instead.
import { join } from 'node:path';
import { root, run, setUp } from './set-up.js';

setUp();
const given = process.argv.slice(2);
const args = given.length > 0 ? given : ['render', '-f', join('examples', 'redis.yaml')];
run(process.execPath, [join(root, 'bin', 'mountlet.js'), ...args]);
