// Package estimate makes the estimator of a run from its specification.
package estimate

import (
	"time"

	"gantry/executor"
	"gantry/executor/sim/hostmodel"
	"gantry/planner"
	"gantry/planner/predict"
)

// Made is an estimator, with the part of it that learns from earlier runs, if any.
type Made struct {
	planner.Estimator
	Learned *predict.Learned // of learned
	// Corrected is that of corrected, unless the estimates are wrong on purpose: those of earlier runs were not wrong
	// in the same way.
	Corrected *predict.Corrected
	declared  *predict.Declared
}

// Phases has the overhead of containers beside their programs follow a host model, instead of one constant.
func (m *Made) Phases(host *hostmodel.Model) {
	m.declared.Overhead = func(t *planner.Task) time.Duration { return host.Overhead(len(t.Inputs), len(t.Outputs)) }
}

// Make makes the estimator that spec names, and connects admission with it. startup is the expected time to start a
// container, errors make declared estimates wrong on purpose, and model is that of a trained estimator.
func Make(spec predict.Spec, startup time.Duration, errors predict.ErrorModel, model *predict.Model,
	adm *executor.Admitter) Made {
	declared := &predict.Declared{Startup: startup, Model: errors}
	adm.Declare, adm.Forget = declared.Declare, declared.Forget
	if errors.Kind == predict.Uniform {
		adm.Actual = errors.Actual
	}
	made := Made{Estimator: declared, declared: declared}
	switch spec.Kind {
	case predict.KindLearned:
		made.Learned = predict.NewLearned(declared)
		made.Estimator, adm.Named = made.Learned, made.Learned.Name
	case predict.KindTrained:
		t := &predict.Trained{Declared: declared, Model: model}
		made.Estimator, adm.Named = t, t.Name
	case predict.KindCorrected:
		c := predict.NewCorrected(declared, spec.Window)
		if made.Estimator = c; errors.Kind == predict.NoError {
			made.Corrected = c
		}
	case predict.KindOracle:
		declared.Model, adm.Oracle = predict.ErrorModel{}, true
		adm.Declare = func(t planner.TaskID, run time.Duration, on []time.Duration, _ planner.Source) {
			run, on = adm.Truth(t, run, on)
			declared.Declare(t, run, on, planner.SourceOracle)
		}
	}
	return made
}
