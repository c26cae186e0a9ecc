// Scenarios of @stomp/stompjs against a broker. One line of JSON for each: {name, result}, or {name, error}.
// node scenario.cjs PACKAGES-FOLDER URL
'use strict';
const { createRequire } = require('node:module');
const [folder, url] = process.argv.slice(2);
const need = createRequire(folder + '/package.json');
const { Client } = need('@stomp/stompjs');
const WebSocket = need('ws');
Object.assign(global, { WebSocket });

const TIMEOUT_MS = 90000;

function connected(options) {
  return new Promise((resolve, reject) => {
    const client = new Client({
      brokerURL: url, reconnectDelay: 0, heartbeatIncoming: 0, heartbeatOutgoing: 0,
      onStompError: (frame) => reject(new Error(frame.headers.message)),
      onWebSocketError: (event) => reject(new Error(event.message)),
      onConnect: (frame) => resolve({ client, frame }),
      ...options,
    });
    client.activate();
  });
}

function received(client, destination, count, headers = {}) {
  return new Promise((resolve) => {
    const messages = [];
    client.subscribe(destination, (message) => {
      messages.push(message);
      if (messages.length === count) resolve(messages);
    }, headers);
  });
}

function receipt(client, act) {
  return new Promise((resolve) => {
    const id = `receipt-${Math.random()}`;
    client.watchForReceipt(id, resolve);
    act(id);
  });
}

async function farewell(client) {
  const closed = new Promise((resolve) => { client.onWebSocketClose = resolve; });
  await client.deactivate();
  return closed;
}

const scenarios = {
  async 'versions and sub-protocols'() {
    const found = [];
    for (const version of ['1.0', '1.1', '1.2']) {
      const { Versions } = need('@stomp/stompjs');
      const { client } = await connected({ stompVersions: new Versions([version]) });
      found.push([client.connectedVersion, client.webSocket.protocol]);
      await farewell(client);
    }
    return found;
  },

  async 'text comes back as it was'() {
    const { client } = await connected();
    const texts = ['', 'plain', 'grüße – 😀', 'a:b\\n\nline', 'x'.repeat(70000)];
    const arrived = received(client, '/queue/text', texts.length);
    for (const body of texts) client.publish({ destination: '/queue/text', body });
    const same = (await arrived).map((message, i) => message.body === texts[i]);
    await farewell(client);
    return same;
  },

  async 'bytes come back as they were'() {
    const { client } = await connected();
    const binaryBody = Uint8Array.from({ length: 1000 }, (_, i) => i % 256);
    const arrived = received(client, '/queue/bytes', 1);
    client.publish({ destination: '/queue/bytes', binaryBody, headers: { 'content-type': 'application/octet-stream' } });
    const [message] = await arrived;
    await farewell(client);
    return Buffer.compare(Buffer.from(message.binaryBody), Buffer.from(binaryBody)) === 0;
  },

  async 'who speaks in binary messages is answered so'() {
    const { client } = await connected({ forceBinaryWSFrames: true });
    let kinds = new Set();
    client.webSocket.addEventListener('message', (event) => kinds.add(typeof event.data));
    const arrived = received(client, '/queue/forced', 1);
    client.publish({ destination: '/queue/forced', body: 'text' });
    const [message] = await arrived;
    await farewell(client);
    return [message.body, [...kinds]];
  },

  async 'a frame in many messages'() {
    const { client } = await connected({ splitLargeFrames: true, maxWebSocketChunkSize: 1000 });
    const body = 'part '.repeat(20000);
    const arrived = received(client, '/queue/split', 1);
    client.publish({ destination: '/queue/split', body });
    const [message] = await arrived;
    await farewell(client);
    return message.body === body;
  },

  async 'a big message'() {
    const { client } = await connected();
    const body = 'b'.repeat(5 << 20);
    const arrived = received(client, '/queue/big', 1);
    client.publish({ destination: '/queue/big', body });
    const [message] = await arrived;
    await farewell(client);
    return message.body === body;
  },

  async 'heart-beats both ways'() {
    // A machine that stands still for a moment is no subject of this. Without its own heart-beats it is closed after 4 s.
    const { client, frame } = await connected({
      heartbeatIncoming: 200, heartbeatOutgoing: 1600, heartbeatToleranceMultiplier: 100,
    });
    const began = Date.now();
    let beats = 0;
    const enough = new Promise((resolve) => {
      client.webSocket.addEventListener('message', (event) => {
        if (event.data === '\n' && ++beats >= 5 && Date.now() - began > 4500) resolve();
      });
    });
    await enough;
    const isOpen = client.connected;
    await farewell(client);
    return [frame.headers['heart-beat'], isOpen];
  },

  async 'acknowledgements, receipts and transactions'() {
    const { client } = await connected();
    const transaction = client.begin();
    for (const body of ['1', '2', '3']) {
      client.publish({ destination: '/queue/work', body, headers: { transaction: transaction.id, persistent: 'true' } });
    }
    transaction.commit();
    const arrived = received(client, '/queue/work', 3, { ack: 'client-individual' });
    const messages = await arrived;
    messages[0].ack();
    messages[2].ack();
    await receipt(client, (id) => messages[1].ack({ receipt: id }));
    await farewell(client);
    return messages.map((message) => message.body);
  },

  async 'a refusal is told'() {
    const { client } = await connected();
    const told = new Promise((resolve) => { client.onStompError = (frame) => resolve(frame.headers.message); });
    client.subscribe('/queue/A', () => {}, { selector: 'a = = b' });
    const text = await told;
    await farewell(client);
    return text.length > 0;
  },

  async 'goodbye'() {
    const { client } = await connected();
    const event = await farewell(client);
    return [event.code, event.wasClean];
  },
};

(async () => {
  for (const [name, scenario] of Object.entries(scenarios)) {
    let timer;
    const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error('timeout')), TIMEOUT_MS); });
    try {
      console.log(JSON.stringify({ name, result: await Promise.race([scenario(), late]) }));
    } catch (error) {
      console.log(JSON.stringify({ name, error: String(error) }));
    }
    clearTimeout(timer);
  }
  process.exit(0);
})();
