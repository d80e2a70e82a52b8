"""Values of answers and parameters in the forms that clients ask for."""
