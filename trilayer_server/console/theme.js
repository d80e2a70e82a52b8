// Applies the chosen theme before anything is drawn; without a choice the system's counts.
const chosen = localStorage.getItem("trilayer-theme");
if (chosen) document.documentElement.dataset.theme = chosen;
