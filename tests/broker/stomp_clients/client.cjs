// Scenarios of stompit. One line of JSON for each. node client.cjs PORT PACKAGES-FOLDER
'use strict';
const { createRequire } = require('node:module');
const [port, folder] = process.argv.slice(2);
const stompit = createRequire(folder + '/package.json')('stompit');

const report = (name, result) => console.log(JSON.stringify({ name, result }));
const settled = (call) => new Promise((resolve, reject) => {
  call((error, value) => (error ? reject(error) : resolve(value)));
});

async function main() {
  const server = { host: '127.0.0.1', port: Number(port), connectHeaders: { host: '/', 'heart-beat': '5000,5000' } };
  const client = await settled((done) => stompit.connect(server, done));
  const messages = [];
  let wake = () => {};
  const subscription = client.subscribe({ destination: '/queue/node', ack: 'client-individual' }, async (error, message) => {
    if (error) throw error;
    messages.push([message, await settled((done) => message.readString('utf-8', done))]);
    wake();
  });
  const next = async () => {
    while (!messages.length) await new Promise((resolve) => { wake = resolve; });
    return messages.shift();
  };
  const send = (frame, body) => { frame.write(body); frame.end(); };

  await settled((done) => {
    const headers = { destination: '/queue/node', persistent: 'true', k: 'a:b\nc' };
    send(client.send(headers, { onReceipt: () => done() }), 'Grüße');
  });
  const [message, body] = await next();
  report('a message', [body, message.headers.k]);
  client.ack(message);

  const aborted = client.begin();
  send(aborted.send({ destination: '/queue/node' }), 'dropped');
  aborted.abort();
  const committed = client.begin();
  send(committed.send({ destination: '/queue/node' }), 'kept');
  await settled((done) => committed.commit({ onReceipt: () => done() }));
  const [kept, text] = await next();
  report('transactions', text);
  client.nack(kept);

  const large = client.send({ destination: '/queue/node', 'content-length': 300000 });
  large.write(Buffer.alloc(150000, 97));
  large.end(Buffer.alloc(150000, 98));
  report('a large message', (await next())[1].length);
  subscription.unsubscribe();
  report('goodbye', await settled((done) => client.disconnect((error) => done(null, error))));

  const failover = new stompit.ConnectFailover([{ host: '127.0.0.1', port: 1 }, server], { initialReconnectDelay: 1 });
  const channel = await settled((done) => new stompit.ChannelFactory(failover).channel(done));
  await settled((done) => channel.send({ destination: '/queue/node' }, 'second address', done));
  report('another address', true);
  channel.close();
}

main().catch((error) => { console.error(error); process.exit(1); });
