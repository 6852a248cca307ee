package match

var Assign = assign
