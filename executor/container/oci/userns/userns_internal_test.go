package userns

import "testing"

func TestMappingsKeepTheUser(t *testing.T) {
	for own, want := range map[int]string{
		1000:    "0 100000 1000 1000 1000 1 1001 101000 64536",
		1:       "0 100000 1 1 1 1 2 100001 65535",
		65535:   "0 100000 65535 65535 65535 1 65536 165535 1",
		2000000: "0 100000 65536 2000000 2000000 1",
	} {
		if got := mapping(own, Range{100000, Least}); got != want {
			t.Errorf("%d: %s, want %s", own, got, want)
		}
	}
}
