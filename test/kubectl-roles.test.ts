/** RBAC with a real kubectl: roles and bindings that it makes, what it says of them, and whom it acts as. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type RunningApiServer, startApiServerProgram } from './api-server-program.ts';
import { Kubectl, noKubectl } from './kubectl-program.ts';

const directory = mkdtempSync(join(tmpdir(), 'mountlet-test-'));
const options = { skip: noKubectl };
let server: RunningApiServer;
let kubectl: Kubectl;

before(async () => {
  if (noKubectl !== false) return;
  server = await startApiServerProgram(join(directory, 'data'));
  kubectl = new Kubectl(server.kubeconfig);
});
after(async () => {
  if (noKubectl === false) await server.stop();
  rmSync(directory, { recursive: true, force: true });
});

/** The exit code and what was said. */
async function says(line: string): Promise<string> {
  const { code, stdout, stderr } = await kubectl.run(line.split(' '));
  return `${code} ${stdout}${stderr}`;
}

test('a role that kubectl makes and binds is what auth can-i, auth whoami and a token go by', options, async () => {
  await kubectl.ok('create serviceaccount robot');
  await kubectl.ok('create role reader --verb=get,list --resource=configmaps');
  await kubectl.ok('create rolebinding robot --role=reader --serviceaccount=default:robot');
  const robot = 'system:serviceaccount:default:robot';
  assert.equal(await kubectl.ok(`auth can-i list configmaps --as=${robot}`), 'yes\n');
  assert.match(await says(`auth can-i list secrets --as=${robot}`), /^1 no\n/);
  assert.match(await says(`auth can-i list configmaps -n kube-system --as=${robot}`), /^1 no\n/);
  const listed = await kubectl.ok(`auth can-i --list --as=${robot}`);
  assert.match(listed, /^configmaps +\[] +\[] +\[get list]$/m);
  assert.match(listed, /^ +\[\/apis\/\*] +\[] +\[get]$/m);
  const who = await kubectl.ok(`auth whoami --as=${robot} --as-group=dev --as-uid=7`);
  assert.match(who, /^Username +system:serviceaccount:default:robot\nUID +7\nGroups +\[dev system:authenticated]$/m);
  const shown = await kubectl.ok('get roles,rolebindings -o wide');
  assert.match(shown, /^role.rbac.authorization.k8s.io\/reader +20\d\d-/m);
  assert.match(shown, /^rolebinding.rbac.authorization.k8s.io\/robot +Role\/reader +\d+s +default\/robot$/m);
  assert.match(await kubectl.ok('describe role reader'), /configmaps +\[] +\[] +\[get list]/);

  const token = (await kubectl.ok('create token robot')).trim();
  const config = JSON.parse(await kubectl.ok('config view --raw -o json'));
  config.users[0].user = { token };
  const file = join(directory, 'robot');
  writeFileSync(file, JSON.stringify(config), { mode: 0o600 });
  const own = new Kubectl(file);
  assert.match(await own.ok('get configmaps'), /kube-root-ca.crt/);
  const { code, stderr } = await own.run(['get', 'secrets']);
  assert.equal(code, 1);
  assert.equal(
    stderr,
    `Error from server (Forbidden): secrets is forbidden: User "${robot}" cannot list resource "secrets" in API group "" in the namespace "default"\n`,
  );
});

test('nobody grants by kubectl what they do not hold, and auth reconcile changes a binding', options, async () => {
  await kubectl.ok('create rolebinding ann --clusterrole=admin --user=ann');
  assert.match(await says('create role pods --verb=get --resource=pods --as=ann'), /^0 role.* created/);
  assert.match(await says('create rolebinding bob --clusterrole=edit --user=bob --as=ann'), /^0 rolebinding.* created/);
  assert.match(
    await says('create rolebinding bob-all --clusterrole=cluster-admin --user=bob --as=ann'),
    /^1 [^]*rolebindings.rbac.authorization.k8s.io "bob-all" is forbidden: user "ann" \(groups=\["system:authenticated"]\) is attempting to grant RBAC permissions not currently held:\n{APIGroups:\["\*"], Resources:\["\*"], Verbs:\["\*"]}\n{NonResourceURLs:\["\*"], Verbs:\["\*"]}/,
  );
  assert.match(await says('get nodes --as=bob --as-group=x'), /^1 [^]*nodes is forbidden: User "bob" cannot list/);
  const binding = {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'RoleBinding',
    metadata: { name: 'bob', namespace: 'default' },
    subjects: [{ kind: 'Group', name: 'dev', apiGroup: 'rbac.authorization.k8s.io' }],
    roleRef: { kind: 'ClusterRole', name: 'view', apiGroup: 'rbac.authorization.k8s.io' },
  };
  const role = {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'Role',
    metadata: { name: 'pods', namespace: 'default' },
    rules: [{ apiGroups: [''], resources: ['pods'], verbs: ['list'] }],
  };
  const input = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: [role, binding] });
  const applied = await kubectl.run(['apply', '-f', '-'], { input });
  assert.match(applied.stderr, /The RoleBinding "bob" is invalid: roleRef: Invalid value: .*: cannot change roleRef/);
  const reconciled = await kubectl.ok('auth reconcile -f -', { input });
  assert.match(reconciled, /role.rbac.authorization.k8s.io\/pods reconciled/);
  assert.match(reconciled, /rolebinding.rbac.authorization.k8s.io\/bob reconciled/);
  const { roleRef, subjects } = await kubectl.json<typeof binding>('get rolebinding bob');
  assert.deepEqual([roleRef.name, subjects.map(({ name }) => name)], ['view', ['dev']]);
});

test('the roles of a namespace go with it', options, async () => {
  await kubectl.ok('create namespace shop');
  await kubectl.ok('create role reader -n shop --verb=get --resource=configmaps');
  await kubectl.ok('create rolebinding cat -n shop --role=reader --user=cat');
  assert.equal(await kubectl.ok('auth can-i get configmaps -n shop --as=cat'), 'yes\n');
  await kubectl.ok('delete namespace shop');
  assert.match(await says('auth can-i get configmaps -n shop --as=cat'), /^1 no\n/);
  assert.match(await kubectl.ok('get roles,rolebindings -n shop --ignore-not-found'), /^$/);
});
