import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NodeMetrics } from './node-metrics.ts';

const none = {
  volumes: () => [],
  volumeStatuses: () => [],
  operationsRunning: () => 0,
  runningPods: () => 0,
};

test('one desired and one mounted volume give exactly two series with value 1', async () => {
  const metrics = new NodeMetrics({
    ...none,
    volumes: () => [
      { plugin: 'kubernetes.io/configmap', state: 'desired_state_of_world', count: 1 },
      { plugin: 'kubernetes.io/configmap', state: 'actual_state_of_world', count: 1 },
    ],
  });
  const { text } = await metrics.text();
  const series = text.split('\n').filter((line) => line.startsWith('volume_manager_total_volumes{'));
  assert.deepEqual(series, [
    'volume_manager_total_volumes{plugin_name="kubernetes.io/configmap",state="desired_state_of_world"} 1',
    'volume_manager_total_volumes{plugin_name="kubernetes.io/configmap",state="actual_state_of_world"} 1',
  ]);
});

test('a volume that was found and not understood is counted twice, and a cleaned one under its own odd name', async () => {
  const metrics = new NodeMetrics(none);
  metrics.reconstructed('no plugin');
  metrics.failedVolumeCleaned('busy');
  const { text } = await metrics.text();
  for (const name of [
    'reconstruct_volume_operations_total 1',
    'reconstruct_volume_operations_errors_total 1',
    'force_cleaned_failed_volume_operations_total 1',
    'force_cleaned_failed_volume_operation_errors_total 1',
  ]) {
    assert.match(text, new RegExp(`^${name}$`, 'm'));
  }
});
