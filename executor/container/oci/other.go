//go:build !linux

package oci

import (
	"context"
	"errors"

	"gantry/executor/container"
)

type Engine struct{ container.Engine }

func Open(Config) (*Engine, error) { return nil, errors.ErrUnsupported }

func Enter() error { return errors.ErrUnsupported }

func Usable(context.Context) error { return errors.ErrUnsupported }

func (e *Engine) Shows() error { return errors.ErrUnsupported }

func NoNetwork() string { return errors.ErrUnsupported.Error() }

func (e *Engine) RemoveNamed(context.Context, string) error { return errors.ErrUnsupported }

func (e *Engine) Shell(context.Context, *container.Spec, int, int, bool, func(string)) (int, error) {
	return 0, errors.ErrUnsupported
}
