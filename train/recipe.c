/* placeholder */
extern int train_recipe_c_placeholder;
