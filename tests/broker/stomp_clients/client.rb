# Scenarios of the gem stomp. One line of JSON for each. ruby client.rb PORT
require 'json'
require 'stomp'

PORT = ARGV[0].to_i

def report(name, result)
  puts JSON.generate(name: name, result: result)
end

def connected(version, headers = {})
  Stomp::Connection.new(
    hosts: [{ login: '', passcode: '', host: '127.0.0.1', port: PORT }], reliable: false,
    connect_headers: { 'accept-version' => version, 'host' => 'localhost' }.merge(headers)
  )
end

report 'versions', %w[1.0 1.1 1.2].map { |version| connected(version).protocol }

connection = connected('1.2')
connection.subscribe('/queue/ruby', 'id' => 's', 'ack' => 'client-individual')
connection.publish('/queue/ruby', 'Grüße', 'persistent' => 'true', 'k' => "a:b\nc\\d", 'receipt' => 'r')
frames = [connection.receive, connection.receive].sort_by(&:command)
message = frames[0]
report 'a message and its receipt', [frames.map(&:command), message.body.force_encoding('UTF-8'), message.headers['k']]
connection.ack(message.headers['ack'])

connection.publish('/queue/ruby', "a\0b")
message = connection.receive
report 'bytes', message.body == "a\0b"
connection.nack(message.headers['ack'])

connection.begin('t')
connection.publish('/queue/ruby', 'dropped', transaction: 't')
connection.abort('t')
connection.begin('t')
connection.publish('/queue/ruby', 'kept', transaction: 't')
connection.commit('t')
message = connection.receive
report 'transactions', message.body
connection.ack(message.headers['ack'])
connection.disconnect

durable = { 'id' => 'd', 'activemq.subscriptionName' => 'news' }
subscriber = connected('1.1', 'client-id' => 'ruby')
subscriber.subscribe('/topic/ruby', durable)
subscriber.disconnect
sender = connected('1.1')
sender.publish('/topic/ruby', 'while it was away', 'persistent' => 'true', 'receipt' => 'r')
sender.receive
sender.disconnect
subscriber = connected('1.1', 'client-id' => 'ruby')
subscriber.subscribe('/topic/ruby', durable)
report 'a durable subscription', subscriber.receive.body
subscriber.disconnect
