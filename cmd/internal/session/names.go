package session

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
)

var adjectives = strings.Fields("able bold brave brisk calm clear deft eager fair fleet gentle glad grand keen kind " +
	"lively lucid merry neat nimble patient plain proud quick quiet ready sharp sober sound steady stout sunny " +
	"swift tidy vivid warm wise witty")

var scientists = strings.Fields("banzhaf bell bohr boole borlaug carson cerf cori curie darwin dijkstra engelbart " +
	"erdos euler faraday feynman floyd franklin galois gauss goldberg hamilton hawking hoare hooke hopper johnson " +
	"keller kepler knuth lamport liskov lovelace mcclintock meitner mendel mirzakhani newton noether pascal pauling " +
	"planck ride shannon tesla turing wozniak wu yalow")

// NewName makes up a name that is easy to say and, by its digits, new.
func NewName() string {
	var b [4]byte
	// crypto/rand.Read never returns an error.
	_, _ = rand.Read(b[:])
	return adjectives[int(b[0])%len(adjectives)] + "-" + scientists[int(b[1])%len(scientists)] + "-" +
		hex.EncodeToString(b[2:])
}
