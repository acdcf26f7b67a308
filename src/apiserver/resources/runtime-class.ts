import {
  type RuntimeClass,
  runtimeClassShape,
  validateRuntimeClass,
  validateRuntimeClassUpdate,
} from '../../kube/kinds/runtime-class.ts';
import { ageColumn, nameColumn, text } from '../model/columns.ts';
import { resource } from '../model/resource.ts';

export const runtimeClasses = resource<RuntimeClass>({
  group: 'node.k8s.io',
  version: 'v1',
  plural: 'runtimeclasses',
  singular: 'runtimeclass',
  kind: 'RuntimeClass',
  namespaced: false,
  shape: runtimeClassShape,
  validate: validateRuntimeClass,
  validateUpdate: validateRuntimeClassUpdate,
  columns: [nameColumn, text('Handler', 'What the node calls it.', ({ handler }) => handler), ageColumn],
  allowsCreateOnUpdate: true,
  allowsUnconditionalUpdate: false,
});
