/** What the shell is told, the same for every command. */
export const exitCode = { done: 0, failed: 1, wrongUsage: 2, interrupted: 130 };
