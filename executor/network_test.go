package executor_test

import (
	"testing"

	"gantry/executor"
)

// The last words of programs that found no network, and of others.
func TestNetworkHint(t *testing.T) {
	for words, hint := range map[string]bool{
		"wget: bad address 'example.org'":                                                       true,
		"nslookup: write to '127.0.0.1': Connection refused":                                    true,
		";; communications error to 127.0.0.1#53: connection refused":                           true,
		";; connection timed out; no servers could be reached":                                  true,
		"curl: (6) Could not resolve host: example.org":                                         true,
		"OSError: [Errno 101] Network is unreachable":                                           true,
		"socket.gaierror: [Errno -3] Temporary failure in name resolution":                      true,
		"Get \"http://x\": dial tcp: lookup x on [::1]:53: read udp [::1]:1->[::1]:53: refused": true,
		"Could not connect to the endpoint URL: \"https://b.s3.amazonaws.com/\"":                true,
		"httplib2.error.ServerNotFoundError: Unable to find the server at www.googleapis.com":   true,
		"getaddrinfo EAI_AGAIN example.org":                                                     true,
		"main.c:53: error: expected ';'":                                                        false,
		"cat: reads.fq: No such file or directory":                                              false,
		"[E::hts_open_format] Failed to open file \"x.bam\" : No such file or directory":        false,
		"connect: Connection refused":                                                           false,
		"the neural network is too deep":                                                        false,
	} {
		if got := executor.NetworkHint(words) != ""; got != hint {
			t.Errorf("%q has a hint: %v", words, got)
		}
	}
}
