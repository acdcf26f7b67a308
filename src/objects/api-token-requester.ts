/** Asks an API server for tokens of service accounts. */
import type { ApiClient } from '../client/api/api-client.ts';
import { NotFoundError } from '../client/api/api-errors.ts';
import { serviceAccounts, withShape } from '../client/api/resource-reference.ts';
import { type TokenRequest, tokenRequestShape } from '../kube/kinds/service-account.ts';
import { TokenRequestsUnsupportedError } from './token-errors.ts';
import type { TokenRequester } from './token-manager.ts';

const tokens = withShape(serviceAccounts, tokenRequestShape);

export class ApiTokenRequester implements TokenRequester {
  readonly #client: Pick<ApiClient, 'create' | 'read'>;
  #isSupported = false;

  constructor(client: Pick<ApiClient, 'create' | 'read'>) {
    this.#client = client;
  }

  async requestToken(
    { namespace, name }: { readonly namespace: string; readonly name: string },
    request: TokenRequest,
    signal: AbortSignal,
  ): Promise<TokenRequest> {
    try {
      return await this.#client.create(tokens, { namespace, name, subresource: 'token' }, request, signal);
    } catch (error) {
      if (!(error instanceof NotFoundError) || (await this.#supportsTokens(signal))) throw error;
      throw new TokenRequestsUnsupportedError({ cause: error });
    }
  }

  /** Asked only when a token was not found, to tell a missing account from a missing endpoint; a yes is remembered. */
  async #supportsTokens(signal: AbortSignal): Promise<boolean> {
    if (this.#isSupported) return true;
    try {
      const { resources } = await this.#client.read('/api/v1', {}, signal);
      this.#isSupported = Array.isArray(resources) && resources.some(isTokenResource);
    } catch {
      signal.throwIfAborted();
    }
    return this.#isSupported;
  }
}

function isTokenResource(resource: unknown): boolean {
  return (
    typeof resource === 'object' && resource !== null && 'name' in resource && resource.name === 'serviceaccounts/token'
  );
}
