import assert from 'node:assert/strict';
import { test } from 'node:test';
import { secretPaths } from './process-runtime.ts';

const none = { stateDirectories: [], manifests: undefined, clusterFiles: [] };
const token = '/var/run/secrets/kubernetes.io/serviceaccount';
const cases = [
  { it: 'hides the directory of a pod’s own token whatever is given', given: {}, hides: [] },
  {
    it: 'hides state directories, the manifests and what a kubeconfig names',
    given: { stateDirectories: ['/var/lib/mountlet'], manifests: '/srv/pods', clusterFiles: ['/a/config', '/b/key'] },
    hides: ['/var/lib/mountlet', '/srv/pods', '/a/config', '/b/key'],
  },
  {
    it: 'hides a path once, and not again below another',
    given: {
      stateDirectories: ['/state/node/', '/state', '/state2'],
      manifests: '/state/pods',
      clusterFiles: ['/state/x'],
    },
    hides: ['/state', '/state2'],
  },
  {
    it: 'hides all of an API server whose kubeconfig is used',
    given: { clusterFiles: ['/data/kubeconfig'] },
    there: ['/data/pki'],
    hides: ['/data'],
  },
  {
    it: 'hides all of an `up` whose kubeconfig is used',
    given: { clusterFiles: ['/up/kubeconfig'] },
    there: ['/up/api/pki'],
    hides: ['/up'],
  },
  {
    it: 'never hides the root',
    given: { stateDirectories: ['/'], manifests: '/', clusterFiles: ['/config'] },
    there: ['/pki'],
    hides: ['/config'],
  },
];
for (const { it, given, hides, there = [] } of cases) {
  test(`secretPaths ${it}`, () => {
    const paths = secretPaths({ ...none, ...given }, (path) => there.some((one) => one === path));
    assert.deepEqual(paths, [...hides, token]);
  });
}
