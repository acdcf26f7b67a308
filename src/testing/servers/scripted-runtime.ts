/** A server of the container runtime interface that answers as a test says: for what no real runtime does on command. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Message, MessageInitShape } from '@bufbuild/protobuf';
import { ImageService, RuntimeService } from '../../grpc/messages/cri_pb.ts';
import { CallFailure, serveMessages } from './grpc-server.ts';

type Methods = (typeof RuntimeService)['method'] & (typeof ImageService)['method'];

/** What a method answers; one that is not there is unimplemented, one that never resolves hangs. */
export type RuntimeScript = {
  [Name in keyof Methods]?: (
    request: Message,
  ) => MessageInitShape<Methods[Name]['output']> | Promise<MessageInitShape<Methods[Name]['output']>>;
};

/** Resolves with its endpoint. The script may be changed while it runs. */
export async function startScriptedRuntime(
  test: { after(act: () => void): void },
  script: RuntimeScript,
): Promise<string> {
  const directory = mkdtempSync(join(tmpdir(), 'cri-'));
  const socket = join(directory, 'runtime.sock');
  const server = await serveMessages(socket, [RuntimeService, ImageService], async (method, request) => {
    const act = script[method.localName as keyof Methods];
    if (act === undefined) throw new CallFailure('UNIMPLEMENTED', `unknown method ${method.name}`);
    return act(request);
  });
  test.after(() => {
    server.forceShutdown();
    rmSync(directory, { recursive: true, force: true });
  });
  return `unix://${socket}`;
}
