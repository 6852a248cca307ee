package oci

import (
	"slices"
	"testing"
)

// As with Docker, the first of an image's entries of one name counts, but one of the task against all of them.
func TestEnvironmentIsAsDockerMakesIt(t *testing.T) {
	image := []string{"A=image", "A=again", "PATH=/image", "B=image", "HOSTNAME=image", "B=again"}
	got := environment(image, "host", []string{"B=own", "C=own"})
	if want := []string{"PATH=/image", "HOSTNAME=image", "A=image", "B=own", "C=own"}; !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
}
