<?php
// Scenarios of PHP's extension stomp. One line of JSON for each. php client.php PORT

function report($name, $result) { echo json_encode(['name' => $name, 'result' => $result]), "\n"; }

$stomp = new Stomp("tcp://127.0.0.1:{$argv[1]}", 'a', 'b', ['accept-version' => '1.0,1.1', 'host' => 'localhost']);
$stomp->setReadTimeout(60);
report('connected', $stomp->getSessionId() != '');
report('sent with a receipt', $stomp->send('/queue/php', 'one', ['persistent' => 'true', 'receipt' => 'r']));

$stomp->subscribe('/queue/php', ['ack' => 'client', 'id' => 's']);
$frame = $stomp->readFrame();
report('a message', [$frame->body, $frame->headers['persistent']]);
report('acknowledged', $stomp->ack($frame));

$stomp->begin('t');
$stomp->send('/queue/php', 'dropped', ['transaction' => 't']);
$stomp->abort('t');
$stomp->begin('t');
$stomp->send('/queue/php', 'two', ['transaction' => 't']);
$stomp->commit('t');
$frame = $stomp->readFrame();
report('transactions', $frame->body);
$stomp->ack($frame);

$stomp->send('/queue/php', "a\0b");
$frame = $stomp->readFrame();
report('bytes', $frame->body === "a\0b");
$stomp->ack($frame);

try {
    $stomp->abort('unknown');
    $stomp->readFrame();
} catch (StompException $error) {
    report('a refusal is an exception', get_class($error));
}
