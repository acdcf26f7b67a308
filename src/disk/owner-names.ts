/** Names of users and groups of this machine, for people. The databases are read once, when first asked. */
import { readFileSync } from 'node:fs';

export interface OwnerNames {
  userName(uid: number): string;
  groupName(gid: number): string;
}

export function ownerNames(): OwnerNames {
  const users = namesIn('/etc/passwd');
  const groups = namesIn('/etc/group');
  return {
    userName: (uid) => users().get(uid) ?? String(uid),
    groupName: (gid) => groups().get(gid) ?? String(gid),
  };
}

/** Lines of `name:password:id:…`; a machine without the file has numbers only. */
function namesIn(file: string): () => ReadonlyMap<number, string> {
  let names: Map<number, string> | undefined;
  return () => {
    if (names !== undefined) return names;
    names = new Map();
    for (const line of readLines(file)) {
      const [name, , id] = line.split(':');
      if (name && id && /^\d+$/.test(id) && !names.has(Number(id))) names.set(Number(id), name);
    }
    return names;
  };
}

function readLines(file: string): readonly string[] {
  try {
    return readFileSync(file, 'utf8').split('\n');
  } catch {
    return [];
  }
}
