package predict_test

import (
	"strings"
	"testing"

	"gantry/planner/predict"
)

func TestASpecificationIsReadTheSameEverywhere(t *testing.T) {
	for text, want := range map[string]predict.Spec{
		"":                   {Kind: "declared"},
		"declared":           {Kind: "declared"},
		"oracle":             {Kind: "oracle"},
		"learned":            {Kind: "learned", Window: 1000},
		"learned:7":          {Kind: "learned", Window: 7},
		"corrected":          {Kind: "corrected", Window: 1000},
		"corrected:5000000":  {Kind: "corrected", Window: 5_000_000},
		"corrected:10000000": {Kind: "corrected", Window: 10_000_000},
		"trained":            {Kind: "trained"},
		"trained:m":          {Kind: "trained", Model: "m"},
		"trained:m@3":        {Kind: "trained", Model: "m@3"},
	} {
		got, err := predict.ParseSpec(text)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
		if again, err := predict.ParseSpec(got.String()); err != nil || again != got {
			t.Errorf("%q: %q is read as %+v, %v", text, got, again, err)
		}
	}
	for text, word := range map[string]string{"oracle:1": "no parameter", "declared:": "no parameter",
		":3": "no parameter", "learned:0": "from 1",
		"corrected:10000001": "10000000", "corrected:x": "whole number", "learned:": "learned:1000",
		"trained:": "name a model", "lerned": "learned", "Oracle": "oracle"} {
		if _, err := predict.ParseSpec(text); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
