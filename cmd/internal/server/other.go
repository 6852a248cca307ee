//go:build !linux

package server

import (
	"errors"
	"net"
)

func peerOf(net.Conn) (Peer, error) { return Peer{}, errors.ErrUnsupported }
