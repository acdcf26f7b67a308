/** Which objects a list or watch is about: selectors of labels and fields as one question. */
import {
  type LabelRequirement,
  LabelSelectorError,
  labelMatcher,
  parseLabelSelector,
} from '../../kube/values/labels.ts';
import {
  type FieldSelector,
  FieldSelectorError,
  matchesFields,
  parseFieldSelector,
  requiredName,
} from '../field-selector.ts';
import type { KubeObject, Resource } from '../resource.ts';
import { badRequest } from '../status.ts';

export interface Selection {
  /** Nothing is left out, so that no object needs to be looked at. */
  readonly isEverything: boolean;
  /** The one name that can match, where the selector fixes it. */
  readonly name: string | undefined;
  matches(object: KubeObject): boolean;
}

/** A watch keeps it and every event is compared with it. */
const selectorLengthMax = 32 * 1024;

export function selectionOf(
  served: Resource,
  selectors: { readonly labelSelector: string; readonly fieldSelector: string },
  urlName = '',
): Selection {
  for (const name of ['labelSelector', 'fieldSelector'] as const) {
    if (selectors[name].length > selectorLengthMax) {
      throw badRequest(`${name}: Too long: may not be more than ${selectorLengthMax} characters`);
    }
  }
  const labels = labelsOf(selectors.labelSelector);
  const matchesLabels = labelMatcher(labels);
  const fields = fieldsOf(selectors.fieldSelector, served);
  const { viewOf } = served;
  return {
    isEverything: labels.length === 0 && fields.length === 0 && urlName === '',
    name: urlName === '' ? requiredName(fields) : urlName,
    matches: (object) =>
      (urlName === '' || object.metadata.name === urlName) &&
      matchesLabels(object.metadata.labels ?? {}) &&
      // The fields of a view are those of its own form.
      (fields.length === 0 || matchesFields(fields, served, viewOf === undefined ? object : viewOf.fromStored(object))),
  };
}

export function fieldsOf(text: string, served: Resource): FieldSelector {
  try {
    return parseFieldSelector(text, served);
  } catch (error) {
    if (error instanceof FieldSelectorError) throw badRequest(error.message);
    throw error;
  }
}

function labelsOf(text: string): readonly LabelRequirement[] {
  try {
    return parseLabelSelector(text);
  } catch (error) {
    if (error instanceof LabelSelectorError) throw badRequest(error.message);
    throw error;
  }
}
