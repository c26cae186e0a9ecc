# Scenarios of Net::Stomp. One line of JSON for each. perl client.pl PORT
use strict;
use warnings;
use JSON::PP;
use Net::Stomp;

my $port = shift;
my $json = JSON::PP->new->canonical;

sub yes { return $_[0] ? JSON::PP::true : JSON::PP::false }
sub report { my ($name, $result) = @_; print $json->encode({ name => $name, result => $result }), "\n" }

my $stomp = Net::Stomp->new({ hostname => '127.0.0.1', port => $port });
report('connected', $stomp->connect({ login => 'a', passcode => 'b' })->command);

$stomp->subscribe({ destination => '/queue/perl', ack => 'client', 'activemq.prefetchSize' => 1 });
$stomp->send({ destination => '/queue/perl', body => 'one', persistent => 'true', k => 'v' });
my $frame = $stomp->receive_frame({ timeout => 60 });
report('a message', [$frame->body, $frame->headers->{k}]);
$stomp->ack({ frame => $frame });

report('sent in a transaction', yes($stomp->send_transactional({ destination => '/queue/perl', body => 'two' })));
$frame = $stomp->receive_frame({ timeout => 60 });
$stomp->ack({ frame => $frame });

my $bytes = { destination => '/queue/perl', body => "a\0b", bytes_message => 1 };
report('sent with a receipt', yes($stomp->send_with_receipt($bytes)));
$frame = $stomp->receive_frame({ timeout => 60 });
report('bytes', yes($frame->body eq "a\0b"));
$stomp->ack({ frame => $frame });

$stomp->unsubscribe({ destination => '/queue/perl' });
$stomp->send({ destination => '/queue/perl', body => 'x' x 500_000 });
$stomp->subscribe({ destination => '/queue/perl' });
report('a large message', length $stomp->receive_frame({ timeout => 60 })->body);
$stomp->disconnect;
