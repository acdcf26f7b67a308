/** Runs a program to its end and takes what it prints: the one that gives credentials. */
import { spawn } from 'node:child_process';
import type { RunCommand } from './exec-credentials.ts';

// A token or a certificate with its key has a few kilobytes.
const outputBytesMax = 1024 * 1024;

export const runCommand: RunCommand = ({ command, args, env, isInteractive }, signal) =>
  new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      env,
      signal,
      stdio: [isInteractive ? 'inherit' : 'ignore', 'pipe', 'inherit'],
    });
    const chunks: Buffer[] = [];
    let bytes = 0;
    child.stdout.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= outputBytesMax) chunks.push(chunk);
      else child.kill();
    });
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, stdout: Buffer.concat(chunks).toString('utf8') }));
  });
